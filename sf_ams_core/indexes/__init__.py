"""Where vectors and words are searched. `exact` scans the owner's records, which is lossless and needs no server."""
