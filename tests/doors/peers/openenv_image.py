"""Starts an image with the stock client's own provider, and plays on it."""

# ruff: noqa: T201 - no pytest where it runs, and what it prints is looked at

import asyncio
import sys

from openenv.core.generic_client import GenericEnvClient


async def main(image: str) -> None:
    env = await GenericEnvClient.from_docker_image(image)
    try:
        await env.reset(split="builtin", index=0, episode_id="mine")
        result = await env.step({"text": "look"})
        assert (result.reward, result.done) == (0.0, False)
        state = await env.state()
        assert (state["episode_id"], state["step_count"]) == ("mine", 1)
    finally:
        await env.close()


asyncio.run(main(sys.argv[1]))
print("played")
