"""From vectors to numbers: clustering, classification, links, theory. No model is known here."""
