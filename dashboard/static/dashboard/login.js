// The login page: show what was typed as the password.
const button = document.querySelector("[data-reveal]");
const input = document.querySelector("#p");
button.hidden = false;
button.addEventListener("click", () => {
  const shown = input.type === "text";
  input.type = shown ? "password" : "text";
  button.setAttribute("aria-pressed", String(!shown));
});
