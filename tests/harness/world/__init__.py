"""Random conversations around the core: the ends' messages, the guests' acts, the rules that must
hold."""
