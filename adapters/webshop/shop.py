"""The shop: its products, and the search over them."""

from functools import cached_property, lru_cache

from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.webshop.products import Catalogue, Product
from certigraph.adapters.webshop.wording import singular
from certigraph.state.endings import Fault
from certigraph.state.passages import Passage

MOST_RESULTS, PER_PAGE = 50, 10


class Shop:
    """Products by asin, found by BM25 over title, description, first feature and options.

    WebShop searches by Lucene (pyserini); this is rank-bm25 over words without stopwords, of which no more than the
    plural is stemmed, so that results come in a somewhat different order.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.products = catalogue.products
        self._found = lru_cache(maxsize=4096)(self._searched)

    def product(self, asin: str) -> Product:
        """The product. Raises Fault("data") where the shop has none of that number."""
        if asin not in self.products:
            raise Fault("data", f"no product {asin!r} among {len(self.products)}; take tasks from WebShop().tasks()")
        return self.products[asin]

    def search(self, keywords: str) -> tuple[str, ...]:
        """The asins of at most fifty products that share a word with the keywords, the best first."""
        return self._found(" ".join(keywords.lower().split()))

    def _searched(self, keywords: str) -> tuple[str, ...]:
        return tuple(hit.passage.id for hit in self._pool.search(singular(keywords), MOST_RESULTS))

    @cached_property
    def _pool(self) -> Pool:
        return Pool([_passage(product) for product in self.products.values()], boost_titles=False)


def _passage(product: Product) -> Passage:
    options = [f"{name}: {', '.join(values)}" for name, values in product.options.items()]
    text = " ".join([product.description, *product.features[:1], *options])
    return Passage(id=product.asin, title=singular(product.title), text=singular(text))
