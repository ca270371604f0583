"""The image without a container engine: `python -m image`, beside `docker build`.

The Dockerfile of `deploy/` is read and its steps are executed in root file systems that debootstrap
has made; the result is started in its own file system and mount table, as the user that the image
names. So the tests use the very file that an engine would build from.
"""
