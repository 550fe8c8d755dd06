/* Everything works without this file. It saves waiting, typing and doubt. */
(function () {
  'use strict';
  var page = document.documentElement;
  page.classList.add('with-js');

  /* Times and numbers in the language of the page, in the country that the reader's browser names with it. */
  page.dataset.locale = navigator.languages.find(function (one) { return one.split('-')[0].toLowerCase() === page.lang; }) || page.lang;

  /* A hidden tab does not poll; a tab that is shown again asks at once. */
  function guard(event) {
    var detail = event.detail, element = detail.ctx ? detail.ctx.sourceElement : detail.elt;
    if (!document.hidden || !element || !element.hasAttribute('data-poll')) return;
    if (element.dataset.askHidden) delete element.dataset.askHidden;  /* notices.js asks, for somebody who wants to be told */
    else event.preventDefault();
  }
  document.addEventListener('htmx:before:request', guard);
  document.addEventListener('htmx:beforeRequest', guard);
  document.addEventListener('visibilitychange', function () {
    if (!document.hidden) document.querySelectorAll('[data-poll]').forEach(function (element) { htmx.trigger(element, 'poll:now'); });
  });

  /* Say when the server cannot be reached, and take it back with the next good answer. */
  function net() { return document.getElementById('net'); }
  function bad() { net().hidden = false; }
  function good(event) {
    var detail = event.detail, response = detail.ctx && detail.ctx.response;
    var status = detail.ctx ? (response && (response.status || (response.raw && response.raw.status))) : detail.xhr && detail.xhr.status;
    if (status && status < 400) net().hidden = true;
  }
  ['htmx:sendError', 'htmx:responseError', 'htmx:timeout', 'htmx:error', 'htmx:response:error'].forEach(function (name) { document.addEventListener(name, bad); });
  ['htmx:afterRequest', 'htmx:after:request'].forEach(function (name) { document.addEventListener(name, good); });

  /* Times in the reader's own zone, and the seconds that are left. */
  var locale = page.dataset.locale, FORMS = {
    clock: function (at) { return at.toLocaleTimeString(locale, { hour: 'numeric', minute: '2-digit' }); },
    seconds: function (at) { return at.toLocaleTimeString(locale, { hour: 'numeric', minute: '2-digit', second: '2-digit' }); },
    day: function (at) { return at.toLocaleDateString(locale, { day: 'numeric', month: 'short', year: 'numeric' }); }
  };
  function inWords(seconds, words) {
    if (seconds <= 0) return words.now;
    var form = seconds < 60 ? words.seconds : seconds % 60 ? words.minutesSeconds : words.minutes;
    return form.replace('{min}', Math.floor(seconds / 60)).replace('{s}', seconds % 60);
  }
  function localise(root) {
    root.querySelectorAll('time[data-local]').forEach(function (element) {
      var at = new Date(element.dateTime);
      if (isNaN(at)) return;
      element.title = element.textContent;
      element.textContent = FORMS[element.dataset.local](at);
      element.removeAttribute('data-local');
    });
    root.querySelectorAll('[data-seconds-left]').forEach(function (element) {
      element.dataset.until = String(performance.now() + 1000 * Number(element.dataset.secondsLeft));
      element.removeAttribute('data-seconds-left');
    });
  }
  setInterval(function () {
    document.querySelectorAll('[data-until]').forEach(function (element) {
      var left = Math.round((Number(element.dataset.until) - performance.now()) / 1000);
      element.textContent = inWords(left, element.dataset);
    });
  }, 1000);

  /* A table that is wider than its place scrolls by keyboard too. */
  function reachWide() {
    document.querySelectorAll('.prose figure').forEach(function (figure) { if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0; else figure.removeAttribute('tabindex'); });
  }
  window.addEventListener('resize', reachWide);

  /* After Cancel the button is gone: keep the keyboard where the answer is. */
  function afterSwap() {
    localise(document);
    reachWide();
    if (document.activeElement === document.body && cancelling) {
      var heading = document.getElementById('job-heading');
      if (heading) heading.focus();
      cancelling = false;
    }
  }
  var cancelling = false;
  ['htmx:after:swap', 'htmx:afterSwap'].forEach(function (name) { document.addEventListener(name, afterSwap); });

  document.addEventListener('submit', function (event) {
    var form = event.target;
    if (form.hasAttribute('hx-post')) cancelling = true;
    if (!form.hasAttribute('data-once') || event.defaultPrevented) return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = 'yes';
    form.querySelectorAll('button').forEach(function (button) { button.setAttribute('aria-disabled', 'true'); });
  });
  window.addEventListener('pageshow', function (event) {
    if (!event.persisted) return;
    /* Back to a page that was kept: its form may be sent again, as a new wish. */
    document.querySelectorAll('form[data-once]').forEach(function (form) {
      delete form.dataset.sent;
      form.querySelectorAll('button').forEach(function (button) { button.removeAttribute('aria-disabled'); });
    });
    document.querySelectorAll('[data-fresh-on-return]').forEach(function (field) {
      if (window.crypto && crypto.randomUUID) field.value = crypto.randomUUID();
    });
  });

  document.addEventListener('click', function (event) {
    var button = event.target.closest ? event.target.closest('[data-copy]') : null;
    if (!button) return;
    var source = document.querySelector('[data-copy-source="' + button.dataset.copy + '"]'), shown = document.querySelector('[data-copy-text]');
    var label = button.dataset.label || button.textContent;
    button.dataset.label = label;
    var words = document.body.dataset, text = source ? source.value : shown ? shown.textContent : '';
    function done(word) {
      button.textContent = word;
      setTimeout(function () { button.textContent = label; }, 2000);
    }
    if (navigator.clipboard) {
      navigator.clipboard.writeText(text).then(function () { done(words.copied); }, function () { done(words.notAllowed); });
    } else if (source) {
      source.select();
      done(document.execCommand('copy') ? words.copied : words.notPossible);
    }
  });

  function start() { localise(document); reachWide(); }
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start); else start();
})();
