"""Writes real files of every format that can be loaded."""

from __future__ import annotations

import json
from pathlib import Path

import docx

SAMPLES = {
    "planner.txt": "The Quay Planner shows which ship lies where.\nIt takes water levels from the Tide Feed.\n",
    "tide.md": "---\ntitle: Tide Feed\nteam: harbour\nyear: 2021\n---\n\nThe Tide Feed is run by Rosa Millán.\n",
    "berth.rst": (
        "===============\nBerth Optimiser\n===============\n\n.. _berth:\n\n"
        "The :class:`Berth Optimiser` proposes berths from `Lisbon <lisbon.html>`_.\n"
    ),
    "ledger.html": (
        "<html><head><title>Ledger | Harbourlight</title><script>var menu = 1</script></head><body>"
        "<nav>Home About</nav><main><h1>Ledger</h1><p>The <b>Ledger</b> is a book.<br>Auditors from Porto read it.</p>"
        "<ul><li>one<li>two</ul></main><footer>imprint</footer></body></html>"
    ),
    "people.csv": "id,name,team,since\n7,Rosa Millán,Harbour Team,2018\n9,Mara Lindqvist,Identity Team,2019\n",
    "notes.jsonl": (
        '{"id": "n1", "title": "Sea", "text": "Rosa Millán likes the sea."}\n'
        '{"id": "n2", "title": "Bank", "text": "Mara Lindqvist came from a bank."}\n'
    ),
    "gateway.json": json.dumps({"documents": [{"title": "Gateway", "content": "The Gateway is the one door."}]}),
}
DOCUMENTS = 11
"""How many documents the samples contain."""


def write_samples(folder: Path) -> None:
    """Write a file of each format."""
    for name, text in SAMPLES.items():
        (folder / name).write_text(text, "utf-8")
    (folder / "app.pdf").write_bytes(pdf("The Mobile App signs people in through the Login Flow."))
    word(folder / "billing.docx")


def word(path: Path) -> None:
    """Write a Word file with a heading, a paragraph and a table."""
    document = docx.Document()
    document.add_heading("Billing Service", 1)
    document.add_paragraph("The Billing Service asks the Tariff Engine for prices.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Owner", "Joaquim Prates"
    document.save(path)


def pdf(text: str, title: str = "") -> bytes:
    """Return a one-page PDF with a text."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode("latin-1")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources <</Font <</F1 5 0 R>>>>>>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) >>".encode("latin-1"),
    ]
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows)
    trailer = b"trailer << /Size %d /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return out + table + trailer
