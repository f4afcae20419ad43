"""Programs around the retriever: reading files, the command line, servers, answers, pages, comparisons."""
