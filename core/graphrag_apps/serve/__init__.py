"""Serve an index over HTTP and as tools of the Model Context Protocol, to clients with API keys bound to a filter.

``Gateway`` authorises and limits requests; ``create_app`` is its HTTP API, ``mcp_server`` its tools. Import from here.
The extra ``serve`` installs FastAPI and uvicorn, the extra ``mcp`` the MCP package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_core.errors import MissingDependency
from graphrag_core.lazy import lazy_names

if TYPE_CHECKING:
    from graphrag_apps.serve.app import create_app
    from graphrag_apps.serve.gateway import Gateway
    from graphrag_apps.serve.keys import ApiKeys, Key, make_key
    from graphrag_apps.serve.limits import Limits
    from graphrag_apps.serve.tools import mcp_server


_import_name = lazy_names(
    __name__,
    {
        "app": "create_app",
        "gateway": "Gateway",
        "keys": "ApiKeys Key make_key",
        "limits": "Limits",
        "tools": "mcp_server",
    },
)


def __getattr__(name: str) -> Any:
    """Import a name on first use: the servers need different packages."""
    try:
        return _import_name(name)
    except ModuleNotFoundError as error:
        if error.name != "pydantic":
            raise
        raise MissingDependency("pydantic", "mcp" if name == "mcp_server" else "serve", "The server") from error
