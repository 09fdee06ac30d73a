"""What this project is installed and built from: pins with hashes, licences, a bill of materials."""
