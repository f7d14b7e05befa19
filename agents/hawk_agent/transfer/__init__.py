"""What streaming and the transports share: chunks, translations, outcomes, and a transport's interface."""
