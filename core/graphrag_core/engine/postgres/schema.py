"""The tables of an index in PostgreSQL, and changes of them.

Several indexes share the tables: each row starts with the number of its index. All tables are in one schema
(namespace) of the database, ``graphrag`` unless the address names another.

Keys. A chunk has a number from the sequence ``chunk_keys``, which hands out blocks of ``BLOCK`` numbers. A document has
the number of its first chunk. A fact has the number ``chunk << 20 | ordinal``: its chunk needs no lookup, and the facts
of a chunk are consecutive. A name (``"Auth Service"``) and its normalised form (column ``spelling``) have the 64-bit
hashes of their texts, so that writers agree on them without asking each other. An entity has the number of its
normalised name.

Rows of documents, chunks and facts are written once and never changed, but for ``last_accessed`` and ``access_count``,
and for ``file`` and ``version`` (:class:`~graphrag_core.model.FileMark`).
``names.uses`` counts the chunks that mention a name, which is deleted with its last use. Ids are unique within an
index: writers check that one after the other (see :mod:`~graphrag_core.engine.postgres.writer`), so no constraint is
needed for which they would wait for each other.

A fact without ``text`` is the slice of its chunk from ``start`` to ``stop`` with newlines replaced by spaces, or with
``is_plain`` that slice without markup. ``statement`` is the same number for facts that say the same.
``chunks.terms`` and ``fact_terms`` are packed by :mod:`graphrag_core.engine.analysis`, ``tokens`` are the packed ids of
tokens, ``chunks.lengths`` the number of terms in each field of keyword search, then that of all facts of the chunk.

``postings`` has a row for each field, term and segment: the keys of the texts that have the term, how often each has
it, and the quantised length of each. A segment are the texts of one write, or of some that were merged (see
:mod:`~graphrag_core.engine.postgres.keywords`). ``dead_chunks`` are deleted chunks that postings still have.

``commits`` has the last transactions of writers, by a random number: whoever lost the answer to a commit looks there.

``mentions.weight`` is 6 for a subject of the chunk, 1 for another entity, and 0 for a further name of an entity that
the chunk mentions before. ``is_alias`` says that the name stands for another entity than the one with its id.
``entities`` has the counters of :mod:`~graphrag_core.engine.graph.counters`. ``chunks.sample`` orders chunks at random:
the first thousand are a sample.
"""

import re
from functools import cache

VERSION = 5
"""The version of the tables. A database of another one is refused."""

BLOCK = 32
"""Keys of chunks that the sequence hands out at once."""

FACT_BITS = 20
"""A fact's key is the key of its chunk, shifted by this number of bits, and its number within the chunk."""

TABLES = {
    "documents": """
        index integer NOT NULL, key bigint NOT NULL, id text COLLATE "C" NOT NULL, title text NOT NULL, heading text,
        metadata text NOT NULL, digest text NOT NULL, generation bigint NOT NULL, added double precision NOT NULL,
        marks bytea, file text COLLATE "C", version text COLLATE "C", PRIMARY KEY (index, key)
    """,
    "attributes": """
        index integer NOT NULL, name text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL, value text COLLATE "C",
        number numeric, document bigint NOT NULL
    """,
    "chunks": """
        index integer NOT NULL, key bigint NOT NULL, id text COLLATE "C" NOT NULL, document bigint NOT NULL,
        ordinal integer NOT NULL, start integer NOT NULL, text text NOT NULL, subjects integer NOT NULL,
        headings text, page integer, terms bytea NOT NULL, fact_terms bytea, tokens bytea,
        facts integer NOT NULL, lengths integer[] NOT NULL, sample bigint NOT NULL,
        PRIMARY KEY (index, key)
    """,
    "names": """
        index integer NOT NULL, key bigint NOT NULL, surface text COLLATE "C" NOT NULL, spelling bigint NOT NULL,
        is_address boolean NOT NULL, uses bigint NOT NULL, PRIMARY KEY (index, key)
    """,
    "mentions": """
        index integer NOT NULL, chunk bigint NOT NULL, position integer NOT NULL, name bigint NOT NULL,
        entity bigint NOT NULL, weight smallint NOT NULL, in_title boolean NOT NULL, is_address boolean NOT NULL,
        is_alias boolean NOT NULL, PRIMARY KEY (index, chunk, position)
    """,
    "facts": """
        index integer NOT NULL, key bigint NOT NULL, chunk bigint NOT NULL, start integer, stop integer, text text,
        is_plain boolean NOT NULL, names bigint[] NOT NULL, relation text COLLATE "C", weight double precision NOT NULL,
        confidence double precision NOT NULL, source text NOT NULL, status text NOT NULL, value text,
        created double precision, last_accessed double precision, access_count bigint NOT NULL,
        valid_from double precision, valid_to double precision, statement bigint NOT NULL,
        PRIMARY KEY (index, key)
    """,
    "fact_entities": """
        index integer NOT NULL, fact bigint NOT NULL, entity bigint NOT NULL, is_address boolean NOT NULL,
        PRIMARY KEY (index, fact, entity)
    """,
    "claims": """
        index integer NOT NULL, chunk bigint NOT NULL, position integer NOT NULL, name bigint NOT NULL,
        type text NOT NULL, description text NOT NULL
    """,
    "aliases": """
        index integer NOT NULL, chunk bigint NOT NULL, position integer NOT NULL, short bigint NOT NULL,
        long bigint NOT NULL
    """,
    "chunk_vectors": "index integer NOT NULL, key bigint NOT NULL, vector {vector} NOT NULL, PRIMARY KEY (index, key)",
    "fact_vectors": "index integer NOT NULL, key bigint NOT NULL, vector {vector} NOT NULL, PRIMARY KEY (index, key)",
    "name_vectors": "index integer NOT NULL, key bigint NOT NULL, vector {vector} NOT NULL, PRIMARY KEY (index, key)",
    "postings": """
        index integer NOT NULL, field smallint NOT NULL, term bigint NOT NULL, segment bigint NOT NULL,
        keys bytea NOT NULL, counts bytea NOT NULL, norms bytea NOT NULL, PRIMARY KEY (index, field, term, segment)
    """,
    "entities": """
        index integer NOT NULL, id bigint NOT NULL, is_address boolean NOT NULL, passages integer NOT NULL,
        subjects integer NOT NULL, titled integer NOT NULL, headings integer NOT NULL, triples integer NOT NULL,
        PRIMARY KEY (index, id)
    """,
}
"""The columns of the large tables."""

SMALL_TABLES = f"""
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE indexes (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
    generation bigint NOT NULL DEFAULT 0, documents bigint NOT NULL DEFAULT 0, chunks bigint NOT NULL DEFAULT 0,
    facts bigint NOT NULL DEFAULT 0, lengths bigint[] NOT NULL DEFAULT '{{0,0,0,0,0}}', dead bigint NOT NULL DEFAULT 0
);
CREATE TABLE settings (index integer NOT NULL, name text NOT NULL, value text NOT NULL, PRIMARY KEY (index, name));
CREATE TABLE segments (index integer NOT NULL, segment bigint NOT NULL, texts integer NOT NULL,
    PRIMARY KEY (index, segment));
CREATE TABLE dead_chunks (index integer NOT NULL, chunk bigint NOT NULL, PRIMARY KEY (index, chunk));
CREATE TABLE commits (index integer NOT NULL, batch bigint NOT NULL, generation bigint NOT NULL,
    PRIMARY KEY (index, batch));
CREATE SEQUENCE chunk_keys MINVALUE 0 START 0 INCREMENT {BLOCK};
"""

INDEXES = """
CREATE INDEX documents_id ON documents (index, id);
CREATE INDEX documents_file ON documents (index, file) WHERE file IS NOT NULL;
CREATE INDEX attributes_text ON attributes (index, name, kind, value, document);
CREATE INDEX attributes_number ON attributes (index, name, number, document) WHERE number IS NOT NULL;
CREATE INDEX attributes_document ON attributes (index, document);
CREATE INDEX chunks_id ON chunks (index, id);
CREATE INDEX chunks_document ON chunks (index, document, key);
CREATE INDEX names_spelling ON names (index, spelling);
CREATE INDEX mentions_entity ON mentions (index, entity, weight DESC, chunk) INCLUDE (name);
CREATE INDEX mentions_alias ON mentions (index, name, entity) WHERE is_alias;
CREATE INDEX mentions_aliased ON mentions (index, entity, name) WHERE is_alias;
CREATE INDEX facts_relation ON facts (index, relation, key) WHERE relation IS NOT NULL;
CREATE INDEX fact_entities_entity ON fact_entities (index, entity, fact);
CREATE INDEX claims_chunk ON claims (index, chunk);
CREATE INDEX claims_name ON claims (index, name);
CREATE INDEX aliases_chunk ON aliases (index, chunk);
CREATE INDEX postings_segment ON postings (index, segment);
CREATE INDEX entities_passages ON entities (index, passages DESC, id) WHERE NOT is_address;
CREATE INDEX entities_headings ON entities (index, id) WHERE headings >= 3;
CREATE INDEX chunks_sample ON chunks (index, sample);
"""

_COLUMN = re.compile(r"\s*\w+ ((?:double precision|[a-z]\w*)(?:\[\])?)(?: |\Z)")

OF_CHUNK = {
    "chunks": "key",
    "mentions": "chunk",
    "claims": "chunk",
    "aliases": "chunk",
    "chunk_vectors": "key",
}
"""The tables whose rows are deleted with their chunk, and the column with its key."""

OF_FACT = {"facts": "key", "fact_entities": "fact", "fact_vectors": "key"}
"""The tables whose rows are deleted with their fact, and the column with its key."""


def statements(vector: str = "halfvec") -> list[str]:
    """Return the statements that create all tables; ``vector`` is the type for vectors, with its schema."""
    found = [statement for statement in SMALL_TABLES.split(";") if statement.strip()]
    for table, columns in TABLES.items():
        found.append(f"CREATE TABLE {table} ({columns.format(vector=vector)})")
        # Of an index that is newer than the statistics the server would believe that it has no rows. It would then read
        # all of them to find those of a chunk, in whichever index of the table it looks at first.
        found.append(f"ALTER TABLE {table} ALTER COLUMN index SET STATISTICS 0")
    found += [statement for statement in INDEXES.split(";") if statement.strip()]
    found.append(f"INSERT INTO meta VALUES ('version', '{VERSION}')")
    return found


@cache
def column_types(table: str) -> list[str]:
    """Return the types of a table's columns, in order."""
    columns = TABLES.get(table) or re.search(rf"CREATE TABLE {table} \((.*?)\);", SMALL_TABLES, re.DOTALL)[1]  # type: ignore[index]
    found = (_COLUMN.match(column) for column in columns.format(vector="halfvec").split(","))
    return [column[1] for column in found if column]
