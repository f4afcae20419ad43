"""Random Markdown, and text that looks like it."""

from __future__ import annotations

from hypothesis import strategies as st


def _markdown(draw_text):
    return st.lists(
        st.one_of(
            draw_text,
            draw_text.map(lambda t: f"# {t}"),
            draw_text.map(lambda t: f"### {t}"),
            draw_text.map(lambda t: f"{t}\n---"),
            draw_text.map(lambda t: f"- {t}\n  - [{t}](x.md#y)\n"),
            draw_text.map(lambda t: f"```py\n{t}\n# c\n```"),
            draw_text.map(lambda t: f"| {t} | b |\n|---|---|\n| c | `d` |"),
            draw_text.map(lambda t: f"{t}\n: {t}"),
            draw_text.map(lambda t: f":::{{note}}\n{t}\n:::"),
            draw_text.map(lambda t: f"(lab)=\n## {t}"),
            draw_text.map(lambda t: f"> {t}\n> > {t}"),
            st.just("    indented"),
        ),
        max_size=14,
    ).flatmap(lambda parts: st.sampled_from(["\n\n", "\n", "\r\n\r\n"]).map(lambda gap: gap.join(parts)))


MARKDOWN = st.one_of(
    _markdown(st.text("abc XY.,é東`*_", min_size=1, max_size=40)),
    st.text("ab1 \n\r\t`*_#[]()<>|:-=~\\!{}é東.", max_size=300),
    st.text(max_size=200),
)
