"""The command ``explore``: writes a part of the graph as one page that works offline."""

from pathlib import Path
from typing import Annotated

import typer

from graphrag_core import GraphRetriever
from graphrag_core.cli import options, render
from graphrag_core.errors import FileError
from graphrag_core.explore import Explorer, static_page


def explore(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path("explore.html"),
    question: Annotated[str | None, typer.Option("--question", "-q", help="Show the answer to this question.")] = None,
    entity: Annotated[
        str | None, typer.Option("--entity", "-e", metavar="NAME", help="Show this entity and its neighbours.")
    ] = None,
    max_nodes: Annotated[
        int, typer.Option("--max-nodes", min=1, max=2_000, help="How many entities the page holds.")
    ] = 150,
    kb: options.Kb = options.KB,
    where: options.Where = None,
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
) -> None:
    """Write the graph explorer as one HTML page: a part of the graph, to search and click through, which works offline.

    Without a question or an entity it starts with the communities and the most mentioned entities. **serve** shows the
    whole graph.
    """
    where_filter = options.parse_where(where)
    with options.open_index(kb, embedder, embedder_url=embedder_url, embeds=question is not None) as index:
        explorer = Explorer(GraphRetriever(index, **options.CONFIG.get().retriever))
        page = static_page(explorer, question=question, entity=entity, max_nodes=max_nodes, where=where_filter)
    try:
        out.write_text(page, "utf-8")
    except OSError as error:
        raise FileError(f"{out}: cannot be written ({error.strerror or error})") from error
    render.stdout().print(f"{out} written: open it in a browser", soft_wrap=True)
