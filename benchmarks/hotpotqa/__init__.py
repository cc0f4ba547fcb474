"""HotpotQA (Yang et al., 2018): questions over two paragraphs of Wikipedia."""
