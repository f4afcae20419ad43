"""Serve an index over HTTP and as tools of the Model Context Protocol, to clients with API keys bound to a filter.

``Gateway`` authorises and limits requests; ``create_app`` is its HTTP API, ``mcp_server`` its tools. Import from here.
The extra ``serve`` installs FastAPI and uvicorn, the extra ``mcp`` the MCP package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphrag_core.errors import MissingDependency

if TYPE_CHECKING:
    from graphrag_core.serve.app import create_app
    from graphrag_core.serve.gateway import Gateway
    from graphrag_core.serve.keys import ApiKeys, Key, make_key
    from graphrag_core.serve.limits import Limits
    from graphrag_core.serve.tools import mcp_server

__all__ = ["ApiKeys", "Gateway", "Key", "Limits", "create_app", "make_key", "mcp_server"]


def __getattr__(name: str) -> Any:
    """Import a name on first use: the servers need different packages."""
    modules = {"Gateway": "gateway", "Limits": "limits", "create_app": "app", "mcp_server": "tools"}
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{modules.get(name, 'keys')}"), name)
    except ModuleNotFoundError as error:
        if error.name != "pydantic":
            raise
        raise MissingDependency("pydantic", "mcp" if name == "mcp_server" else "serve", "The server") from error
