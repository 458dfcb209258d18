// Starts Swagger UI on the page of the API's documentation.
"use strict";

SwaggerUIBundle({
  url: document.getElementById("docs").dataset.schema,
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null, // no third party sees the document
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
