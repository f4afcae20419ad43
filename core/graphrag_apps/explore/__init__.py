"""The graph explorer: a page on which people search, ask and walk through the graph of an index.

:class:`Explorer` answers the page's requests with small JSON-able dictionaries: never the whole graph.
``hybrid-graphrag serve`` shows the page under ``/explore``; :func:`static_page` and ``hybrid-graphrag graph explore``
write a part of the graph into one HTML file that works offline. The page draws with cytoscape.js, which is part of the
package (``assets/NOTICE``).
"""

from graphrag_apps.explore.explorer import Explorer
from graphrag_apps.explore.page import server_page, static_page
