"""What stores and searches an index: rows in SQLite or PostgreSQL, and arrays in memory. Everything here is private."""
