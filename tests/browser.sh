# shellcheck shell=bash disable=SC2154  # $failures: common.sh's
# browser.sh: headless Chromium for tests of pages, from files and without a network. Source it after common.sh.
browser=
for name in chromium chromium-browser google-chrome google-chrome-stable chrome-headless-shell; do
    [ -n "$browser" ] || browser=$(command -v "$name")
done

# no_browser REASON: end the test, skipped unless a check has failed
no_browser() {
    echo "not tested in a browser: $1"
    [ "$failures" -eq 0 ] && exit 77
    finish
}

need_browser() {
    [ -n "$browser" ] || no_browser "Chromium is missing"
}

# chrome OPTION...: run Chromium on a page, without its sandbox, which root cannot use
chrome() {
    run "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$work/browser" --window-size=1500,1200 --host-resolver-rules='MAP * ~NOTFOUND' "$@"
}

# browser_ran: skip the test unless the last chrome --dump-dom printed a page
browser_ran() {
    if [ "$code" -ne 0 ] || ! grep -q '<html' "$work/out"; then
        no_browser "$browser does not run here (exit code $code)"
    fi
}
