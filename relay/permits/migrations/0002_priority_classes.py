"""The four priority classes that exist from the start."""

from __future__ import annotations

from typing import Any

from django.db import migrations

CLASSES = {"critical": 0, "interactive": 1, "batch": 2, "background": 3}


def make_classes(apps: Any, schema_editor: Any) -> None:
    """Makes those that are missing."""
    rows = apps.get_model("permits", "PriorityClass").objects.using(schema_editor.connection.alias)
    for name, rank in CLASSES.items():
        rows.get_or_create(name=name, defaults={"rank": rank})


class Migration(migrations.Migration):
    """Forward only in effect: going back leaves the rows to the table's own end."""

    dependencies = [("permits", "0001_initial")]
    operations = [migrations.RunPython(make_classes, migrations.RunPython.noop)]
