"""`warren demo`: what a mirrored queue is good for, shown on this machine in half a minute."""
