"""The three roles of people, as Django groups. A superuser is an admin without being in one."""

from __future__ import annotations

from typing import Any

from django.db import migrations

ROLES = ("viewer", "operator", "admin")


def make_groups(apps: Any, schema_editor: Any) -> None:
    """Makes the groups that are not there."""
    group = apps.get_model("auth", "Group")
    for name in ROLES:
        group.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    """Groups only; the dashboard has no tables."""

    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
