"""The command line. Data goes to stdout, words to stderr; nothing here decides what a conversation keeps."""
