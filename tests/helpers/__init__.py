"""What tests share: everything that more than one of them needs, in folders by what it stands for."""
