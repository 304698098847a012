"""The Kafka driver that the machines' Faust uses, registered as `milena://`."""
