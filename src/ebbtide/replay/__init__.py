"""What a policy would have cost and kept on sessions that were recorded. No model is called, and nothing is sent."""

from ebbtide.replay.policies import NAMES
from ebbtide.replay.run import Played, Terms, failures, files, on_ray, play, replay, totals
from ebbtide.replay.score import Point, Score

__all__ = ["NAMES", "Played", "Point", "Score", "Terms", "failures", "files", "on_ray", "play", "replay", "totals"]
