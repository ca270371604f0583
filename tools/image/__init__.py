"""The image without a container engine: `python -m image`, beside `docker build`.

The Dockerfile of `deploy/` is read and its steps are executed in root file systems that debootstrap
has made; what comes out is started in a file system and a mount table of its own, as the user that
the image names. So the tests use the very file that an engine would build from.
"""
