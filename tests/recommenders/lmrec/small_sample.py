"""The sample that the tests train on: venues, reviews a venue, and the length of lists."""

VENUES, REVIEWS, TOP = 24, 240, 6
