"""The examples of docs/scale.md run on a real server."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
import yaml

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import NotAnIndex
from graphrag_core.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text("utf-8")
ADDRESS = "postgresql://graphrag@localhost/graphrag"


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def here(database):
    """Puts the server of the tests, and a schema of its own, into an example."""
    plain, _, _ = database.partition("schema=")
    schema = f"docs_{uuid.uuid4().hex[:8]}"

    def placed(text):
        text = re.sub(re.escape(ADDRESS) + r"\?(?=index=)", f"{plain}schema={schema}&", text)
        text = text.replace(ADDRESS, f"{plain}schema={schema}")
        return re.sub(r"\bgraphrag(?=\.|'::|\s+TO\b)", schema, text)

    placed.address = f"{plain}schema={schema}"
    placed.schema = schema
    return placed


def test_the_python_blocks_run(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks("python(?: postgresql)?"):
        exec(compile(here(block), "scale.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own page


def test_row_level_security_separates_tenants(here):
    psycopg = pytest.importorskip("psycopg")
    plain = here.address.partition("?")[0]
    urls = {name: f"{here.address}&index={name}" for name in ("acme", "globex")}
    for url in urls.values():
        KnowledgeIndex.open(url).close()
    roles = {name: f"{name}_{uuid.uuid4().hex[:8]}" for name in urls}
    once, each = blocks("sql")
    with psycopg.connect(plain, autocommit=True) as owner:
        owner.execute(here(once))
        try:
            for name, role in roles.items():
                statements = here(each).replace("ROLE acme", f"ROLE {role}").replace("'acme' FROM", f"'{role}' FROM")
                statements = statements.replace("name = 'acme'", f"name = '{name}'")
                owner.execute(re.sub(r"(TO|FROM) acme\b", rf"\1 {role}", statements))
            as_role = {name: url.replace("postgres@", f"{roles[name]}@") for name, url in urls.items()}
            for name, url in as_role.items():
                with KnowledgeIndex.open(url, HashEmbedder(), embed_names=True) as index:
                    index.add([Document("1", f"The Auth Service of {name.title()} delegates sign-in to Keyring.")])
                    index.add([Document("2", f"Keyring is a vendor of {name.title()}.")])
                    index.delete("2")
                    assert index.verify()
                    found = GraphRetriever(index).retrieve("Auth Service").hits
                    assert [hit.chunk.text for hit in found] == [
                        f"The Auth Service of {name.title()} delegates sign-in to Keyring."
                    ]
                with psycopg.connect(url.partition("?")[0], autocommit=True) as tenant:
                    for table in ("passages", "documents", "names", "segments", "settings", "name_vectors"):
                        seen = tenant.execute(f"SELECT DISTINCT index FROM {here.schema}.{table}").fetchall()
                        assert len(seen) == 1, table
                    assert tenant.execute(f"SELECT name FROM {here.schema}.indexes").fetchall() == [(name,)]
                    other = "globex" if name == "acme" else "acme"
                    tables = tenant.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (here.schema,))
                    for (table,) in tables.fetchall():
                        rows = tenant.execute(f"SELECT t::text FROM {here.schema}.{table} t").fetchall()
                        assert other not in str(rows).lower(), table
            _attack(as_role["acme"], here.schema, "globex")
            with KnowledgeIndex.open(as_role["globex"], HashEmbedder(), read_only=True) as index:
                assert index.verify()
                assert index.document_ids() == ["1"]
            with pytest.raises(NotAnIndex):
                KnowledgeIndex.open(urls["globex"].replace("postgres@", f"{roles['acme']}@"), read_only=True)
        finally:
            for role in roles.values():
                owner.execute(f"DROP OWNED BY {role}")
                owner.execute(f"DROP ROLE {role}")


def _attack(url: str, schema: str, other: str) -> None:
    """Try as the role of a tenant to write into the rows of another, to see them, and to gain rights."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(url.partition("?")[0], autocommit=True) as tenant:
        tenant.execute(f"SET search_path = {schema}")
        ((own,),) = tenant.execute("SELECT id FROM indexes").fetchall()
        tables = tenant.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'index' "
            "WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p')", (schema,)
        ).fetchall()  # fmt: skip
        assert len(tables) == 11
        ids = [number for number in range(1, own + 5) if number != own]  # whatever the number of the other is
        for (table,) in tables:
            for number in ids:
                assert tenant.execute(f"SELECT FROM {table} WHERE index = {number}").rowcount == 0, table
                if table != "index_roles":
                    assert tenant.execute(f"DELETE FROM {table} WHERE index = {number}").rowcount == 0, table
                    if tenant.execute(f"SELECT FROM {table}").rowcount:
                        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                            tenant.execute(f"UPDATE {table} SET index = {number}")
            for statement in (f"TRUNCATE {table}", f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    tenant.execute(statement)
        for statement in (
            f"INSERT INTO settings SELECT {own + 1}, name, value FROM settings",
            f"INSERT INTO indexes (name) VALUES ('{other}')",
            "INSERT INTO indexes (name) VALUES ('a new one')",
            f"INSERT INTO index_roles SELECT {own + 1}, current_user",
            "UPDATE index_roles SET role = 'postgres'",
            "DELETE FROM meta",
            "SELECT setval('claims_rowid_seq', 1)",
            "SET ROLE postgres",
            f"CREATE TABLE {schema}.mine (a int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                tenant.execute(statement)
        statistics = tenant.execute("SELECT * FROM pg_stats WHERE schemaname = %s", (schema,)).fetchall()
        assert other not in str(statistics).lower()


def test_the_compose_file_has_an_image():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    service = compose["services"]["postgres"]
    assert service["image"] == "postgres:16"
    assert service["healthcheck"]["test"]
    assert [volume.partition(":")[0] for volume in service["volumes"]] == list(compose["volumes"])
