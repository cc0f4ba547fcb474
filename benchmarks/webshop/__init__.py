"""WebShop: find a product in a shop of Amazon listings, choose its options, buy it (Yao et al., arXiv 2207.01206)."""
