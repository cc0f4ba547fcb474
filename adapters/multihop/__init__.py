"""SDP's operators for multi-hop question answering: decomposition, bridge entities, claims, verified paragraphs."""
