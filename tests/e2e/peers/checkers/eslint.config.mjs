import plugin from "eslint-plugin-jsx-a11y";

export default [
  {
    files: ["**/*.jsx"],
    ...plugin.flatConfigs.recommended,
    languageOptions: { parserOptions: { ecmaFeatures: { jsx: true } } },
  },
];
