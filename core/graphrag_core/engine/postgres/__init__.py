"""The PostgreSQL engine: many processes on many machines read and write one index.

It needs the extra ``postgres`` (psycopg 3 with a connection pool), and in the database the extension ``vector``.
"""

from graphrag_core.engine.postgres.engine import PostgresEngine as PostgresEngine
