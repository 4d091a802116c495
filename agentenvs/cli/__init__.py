"""The command line. Each verb imports what it needs when it runs, so that ``--help`` costs nothing."""
