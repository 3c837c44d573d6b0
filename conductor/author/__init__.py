"""Tools for authors of proxies: checks, transcripts, templates, guests tried out in a cage."""
