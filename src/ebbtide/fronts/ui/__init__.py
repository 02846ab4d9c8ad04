"""The web inspector. It shows and, where asked at the start, undoes; it never plans."""
