"""Auth backends that ask another server: HTTP, LDAP, OAuth 2.0, and how the chain is made."""
