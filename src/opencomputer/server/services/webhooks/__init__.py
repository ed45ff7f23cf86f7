"""Sending webhooks, whatever they are about."""
