"""The console as a test looks at it: pages by their links, tables by their marks."""

from playwright.sync_api import Locator, Page, expect


class Screen:
    """One tab of a browser."""

    def __init__(self, page: Page, port: int) -> None:
        self.page = page
        self.base = f"http://127.0.0.1:{port}"

    def open(self, place: str = "overview") -> None:
        """A page by its permalink."""
        self.page.goto(f"{self.base}/console/#/{place}")

    def sign_in(
        self, key: str, policy: str = "RootManageSharedAccessKey", entity: str = ""
    ) -> None:
        self.page.get_by_label("Policy", exact=True).fill(policy)
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_label("Entity, if").fill(entity)
        self.page.get_by_role("button", name="Sign in", exact=True).click()
        expect(self.page.get_by_role("navigation", name="Pages")).to_be_visible()

    def title(self, text: str) -> None:
        expect(self.page.get_by_role("heading", level=1)).to_have_text(text)

    def rows(self, mark: str, count: int) -> None:
        """A table that shows so many."""
        expect(self.page.locator(f"[data-{mark}]")).to_have_attribute(f"data-{mark}", str(count))

    def button(self, name: str, within: Locator | None = None) -> Locator:
        return (within or self.page).get_by_role("button", name=name, exact=True)

    def cli(self, line: str) -> None:
        """Some command on the page is this one."""
        expect(
            self.page.locator("[data-cli] code").get_by_text(line, exact=True).first
        ).to_be_visible()
