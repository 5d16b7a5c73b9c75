"""What is known of hardware, store releases and engine releases, as tables: each row with its source."""
