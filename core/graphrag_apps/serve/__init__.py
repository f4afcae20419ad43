"""An index over HTTP (FastAPI) and as tools of the Model Context Protocol, with API keys that are bound to filters.

Both servers call the plain functions of :mod:`graphrag_apps.serve.operations`, each with the scope of the caller's key.
``hybrid-graphrag serve`` and ``hybrid-graphrag mcp`` run them. Rates, TLS and compression are the job of a proxy.
"""

from typing import TYPE_CHECKING

from graphrag_core.lazy import lazy_names

if TYPE_CHECKING:
    from graphrag_apps.serve.app import create_app
    from graphrag_apps.serve.gateway import Gateway, Limits
    from graphrag_apps.serve.http import serve
    from graphrag_apps.serve.keys import ApiKeys, Key, make_key
    from graphrag_apps.serve.tools import mcp_app, mcp_server

__all__ = ["ApiKeys", "Gateway", "Key", "Limits", "create_app", "make_key", "mcp_app", "mcp_server", "serve"]

__getattr__ = lazy_names(
    __name__,
    {
        "app": "create_app",
        "gateway": "Gateway Limits",
        "http": "serve",
        "keys": "ApiKeys Key make_key",
        "tools": "mcp_app mcp_server",
    },
)
