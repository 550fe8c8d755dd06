/* The tab's icon follows the state, and somebody who asked for it is told by the browser when a job is done. */
(function () {
  'use strict';
  var ASK_HIDDEN_SECONDS = 20, KEY = 'waybill-tell-me', FINAL = ['succeeded', 'failed', 'cancelled'];
  var able = 'Notification' in window, seen = null;

  function status() { return document.getElementById('job-status'); }
  function stored() { try { return localStorage.getItem(KEY) === 'on'; } catch (error) { return false; } }
  function store(on) { try { localStorage.setItem(KEY, on ? 'on' : 'off'); } catch (error) { /* a browser that keeps nothing */ } }
  function wished() { return able && Notification.permission === 'granted' && stored(); }

  function tell(section) {
    var badge = section.querySelector('.badge'), heading = section.querySelector('h1');
    var shown = new Notification(badge.textContent.trim(), { body: heading.textContent, icon: section.dataset.icon, tag: section.id + location.pathname });
    shown.onclick = function () { window.focus(); shown.close(); };
  }

  function showButton() {
    var button = document.querySelector('[data-notify]');
    if (!button || !able || Notification.permission === 'denied') return;
    button.hidden = false;
    button.setAttribute('aria-pressed', String(wished()));
    button.textContent = wished() ? button.dataset.stop : button.dataset.start;
  }

  function look() {
    var section = status(), icon = document.querySelector('link[rel=icon]');
    if (!section) return;
    if (icon && icon.getAttribute('href') !== section.dataset.icon) icon.setAttribute('href', section.dataset.icon);
    showButton();
    var state = section.dataset.state;
    if (seen && seen !== state && FINAL.indexOf(state) >= 0 && document.hidden && wished()) tell(section);
    seen = state;
  }
  ['htmx:after:swap', 'htmx:afterSwap'].forEach(function (name) { document.addEventListener(name, look); });

  document.addEventListener('click', function (event) {
    var button = event.target.closest ? event.target.closest('[data-notify]') : null;
    if (!button) return;
    if (wished()) { store(false); showButton(); return; }
    Notification.requestPermission().then(function (answer) {
      store(answer === 'granted');
      if (answer === 'denied') button.hidden = true; else showButton();
    });
  });

  /* A hidden tab does not poll, unless somebody waits to be told; then seldom. */
  setInterval(function () {
    var section = status();
    if (!document.hidden || !wished() || !section || !section.hasAttribute('data-poll')) return;
    section.dataset.askHidden = 'yes';
    htmx.trigger(section, 'poll:now');
  }, ASK_HIDDEN_SECONDS * 1000);

  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', look); else look();
})();
