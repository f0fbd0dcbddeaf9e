"""Protection for engines that ask: the protection rules on the protocol Trino speaks to OPA."""
