"""AgentDojo: tasks over simulated tools whose answers may contain the orders of an attacker."""
