#!/usr/bin/env bash
# `make html`: the documentation site is built without a warning; in headless Chromium, from files and without a network,
# its pages are whole, its search finds pages, the reference has the library's functions, and no page loads
# anything from elsewhere.
# shellcheck disable=SC2154,SC2016  # $top_srcdir: make check's; evaluated later
. "${srcdir:-.}/tests/common.sh"
# shellcheck source=tests/browser.sh
. "${srcdir:-.}/tests/browser.sh"

if ! command -v doxygen >/dev/null || ! command -v sphinx-build >/dev/null; then
    echo "skipped: Doxygen or Sphinx is missing"
    exit 77
fi
run sh "$top_srcdir/docs/site/build" "$top_srcdir" "$STARSTEP" 9.8.7 "$work/site"
if grep -qE "Could not import extension|no theme named" "$work/err"; then
    echo "skipped: Sphinx's extensions are missing: $(head -n 1 "$work/err")"
    exit 77
fi
check "the site is built" [ $code -eq 0 ]
html=$work/site/html
for page in "$top_srcdir"/docs/*.md "$top_srcdir"/docs/gpu-results/*.md; do
    page=${page#"$top_srcdir/"}
    [ -s "$html/${page%.md}.html" ] || fail "the site has no $page"
    grep -qF "href=\"${page%.md}.html\"" "$html/index.html" || fail "$page is not in the list of pages"
done
while read -r name; do
    grep -q "class=\"sig-name descname\">.*>$name<" "$html/docs/reference.html" || fail "the reference has no $name"
done < <(grep '^ss_' "$top_srcdir/src/api/exports.sym")
check "options are listed" grep -qF -e '--weight-decay' "$html/docs/options.html"
check "the version is on the page" grep -qF "starstep 9.8.7" "$html/index.html"
check "pages load no scripts and styles from elsewhere" eval \
    '! grep -rnE "<(script|link|img)[^>]*(src|href)=.(https?:)?//" --include="*.html" "$html"'

need_browser
chrome --dump-dom --virtual-time-budget=20000 "file://$html/index.html"
browser_ran
check "the first page shows the trace's image" grep -q '<img[^>]*trace.png' "$work/out"
chrome --dump-dom --virtual-time-budget=20000 "file://$html/search.html?q=bucket"
check "the search finds a page" grep -q '<a href="docs/tour.html[^>]*>' <(sed -n '/id="search-results"/,$p' "$work/out")
chrome --dump-dom --virtual-time-budget=20000 "file://$html/search.html?q=zzyzx"
check "and none for a word that no page has" eval \
    '! sed -n "/id=\"search-results\"/,\$p" "$work/out" | grep -q "<li[ >]*<a href"'
chrome --screenshot="$work/shot.png" "file://$html/docs/reference.html"
size=$(stat -c %s "$work/shot.png")
check "a screenshot of $size bytes" [ "$size" -gt 20000 ]
finish
