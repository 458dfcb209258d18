"""The configured tokenizers, with gpt2, which needs no network."""

from __future__ import annotations

import django.core.validators
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def make_gpt2(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The one tokenizer that every relay has from its first start."""
    rows = apps.get_model("tokens", "TokenModel").objects.using(schema_editor.connection.alias)
    rows.get_or_create(name="gpt2", defaults={"source": "package"})


class Migration(migrations.Migration):
    initial = True

    dependencies: list[tuple[str, str]] = []

    operations = [
        migrations.CreateModel(
            name="TokenModel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=200,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?\\Z",
                                "Use letters, digits, dots, dashes and underscores: name or org/name.",
                            )
                        ],
                    ),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[
                            ("package", "shipped with an installed package"),
                            ("hub", "Hugging Face hub or its local cache"),
                            ("path", "a local folder or tokenizer.json"),
                        ],
                        default="hub",
                        max_length=10,
                    ),
                ),
                ("location", models.CharField(blank=True, default="", max_length=1000)),
                ("revision", models.CharField(blank=True, default="", max_length=100)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.RunPython(make_gpt2, migrations.RunPython.noop),
    ]
