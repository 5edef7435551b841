"""Notifies listeners, measures progress, and explains a standstill."""
