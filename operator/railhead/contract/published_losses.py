"""How often jobs lose a GPU where that was published: used while a job knows no rate of its own."""

from __future__ import annotations

# Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters (arXiv 2410.21680): jobs on
# 1,024 GPUs lose one every 7.9 hours.
PUBLISHED_GPU_SECONDS = 1024 * 7.9 * 3600
