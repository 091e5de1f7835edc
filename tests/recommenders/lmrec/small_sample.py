"""The sample that the tests train on: venues, reviews a venue, all reviews where nothing is learnt, length of lists."""

VENUES, REVIEWS, FEW, TOP = 24, 240, 1000, 6
