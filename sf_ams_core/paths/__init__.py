"""The journeys: write, recall, forget, erase. Each opens with its picture and is read from top to bottom."""
