from django.db import migrations, models


def _count() -> models.PositiveIntegerField:
    return models.PositiveIntegerField(blank=True, default=None, null=True)


class Migration(migrations.Migration):

    dependencies = [
        ('permits', '0003_sizing'),
    ]

    operations = [
        migrations.AddField(model_name='pool', name='requests_per_minute', field=_count()),
        migrations.AddField(model_name='pool', name='requests_burst', field=_count()),
        migrations.AddField(model_name='pool', name='tokens_per_minute', field=_count()),
        migrations.AddField(model_name='pool', name='tokens_burst', field=_count()),
    ]
