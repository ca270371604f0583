"""The management API of the vendor's administration clients: Atom documents over HTTP (HTP-6)."""
